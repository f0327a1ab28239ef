import { SegmentedMessage } from 'sms-segments-calculator'

/** A longer SMS is a mistake more often than it is meant. */
export const MAX_SEGMENTS = 3
/** What these hold at most: 153 characters each, where all are of GSM 7-bit (3GPP TS 23.038). */
const MAX_CHARS = 153 * MAX_SEGMENTS
/** All characters of GSM 7-bit but CR, with LF one of UCS-2 to the library, and FF; of these some take two places each. */
const GSM = /^[\n -_a-~¡£¤¥§¿ÄÅÆÇÉÑÖØÜßàäåæèéìñòöøùüΓΔΘΛΞΠΣΦΨΩ€]*$/
const WIDE = /[[-^{-~€]/
/** What is part of a letter, or may be, or is none, and what takes two places in UCS-2. */
const JOINED =
  /(?!\n)[\p{M}\p{C}\p{Zl}\p{Zp}\u0d4e\u0e33\u0eb3\u1100-\u11ff\u1cf2\u1cf3\ua960-\ua97c\ud7b0-\ud7fb\uff9e\uff9f\u{10000}-\u{10ffff}]/u

/** How many SMS a text takes (GSM 03.38 or UCS-2, 3GPP TS 23.040). */
export function countSegments(text: string): number {
  // So many fit whatever they are; and to ask the library, 4 µs a character, would take as long as all the rest of a send.
  if (text.length <= 70) return 1
  if (GSM.test(text)) return segmentsOfGsm(text)
  if (!JOINED.test(text)) return Math.ceil(text.length / 67)
  const { segmentsCount, encodingName } = new SegmentedMessage(text)
  // A letter with all its accents it takes for one, and puts into one segment however many they are.
  const least = encodingName === 'UCS-2' ? Math.ceil(text.length / 67) : 1
  return Math.max(segmentsCount, least)
}

function segmentsOfGsm(text: string): number {
  if (!WIDE.test(text)) return text.length <= 160 ? 1 : Math.ceil(text.length / 153)
  const places = Array.from(text, character => (WIDE.test(character) ? 2 : 1))
  if (places.reduce((sum, each) => sum + each, 0) <= 160) return 1
  let [segments, taken] = [1, 0]
  for (const each of places) {
    // The two of one character stay together.
    if (taken + each > 153) [segments, taken] = [segments + 1, 0]
    taken += each
  }
  return segments
}

/** The same for a text that may be of any length; undefined when it takes more than `MAX_SEGMENTS`. */
export function segmentsWithin(text: string): number | undefined {
  // To count those of a long text takes tenths of a second.
  const segments = text.length > MAX_CHARS ? Number.POSITIVE_INFINITY : countSegments(text)
  return segments > MAX_SEGMENTS ? undefined : segments
}
