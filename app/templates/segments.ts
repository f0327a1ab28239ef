import { SegmentedMessage } from 'sms-segments-calculator'

/** The most segments of an SMS. A longer one is more often a mistake than meant. */
export const MAX_SEGMENTS = 3
/** The most characters in `MAX_SEGMENTS` segments: 153 each, if all are of GSM 7-bit (3GPP TS 23.038). */
const MAX_CHARS = 153 * MAX_SEGMENTS
/** A text of GSM 7-bit, without FF and CR: the library takes CR LF for UCS-2. Those of WIDE take two places each. */
const GSM = /^[\n -_a-~¡£¤¥§¿ÄÅÆÇÉÑÖØÜßàäåæèéìñòöøùüΓΔΘΛΞΠΣΦΨΩ€]*$/
const WIDE = /[[-^{-~€]/
/** Characters that are or may be part of a letter, or are invisible, and those that take two places in UCS-2. */
const JOINED =
  /(?!\n)[\p{M}\p{C}\p{Zl}\p{Zp}\u0d4e\u0e33\u0eb3\u1100-\u11ff\u1cf2\u1cf3\ua960-\ua97c\ud7b0-\ud7fb\uff9e\uff9f\u{10000}-\u{10ffff}]/u

/** How many SMS a text takes (GSM 03.38 or UCS-2, 3GPP TS 23.040). */
export function countSegments(text: string): number {
  // 70 characters fit into one SMS in any encoding. The library, at 4 µs each, takes as long as the rest of a send.
  if (text.length <= 70) return 1
  if (GSM.test(text)) return segmentsOfGsm(text)
  if (!JOINED.test(text)) return Math.ceil(text.length / 67)
  const { segmentsCount, encodingName } = new SegmentedMessage(text)
  // The library counts a letter with all its accents as one, and puts it into one segment, however many they are.
  const least = encodingName === 'UCS-2' ? Math.ceil(text.length / 67) : 1
  return Math.max(segmentsCount, least)
}

function segmentsOfGsm(text: string): number {
  if (!WIDE.test(text)) return text.length <= 160 ? 1 : Math.ceil(text.length / 153)
  const places = Array.from(text, character => (WIDE.test(character) ? 2 : 1))
  if (places.reduce((sum, each) => sum + each, 0) <= 160) return 1
  let [segments, taken] = [1, 0]
  for (const each of places) {
    // The two places of a character stay in one segment.
    if (taken + each > 153) [segments, taken] = [segments + 1, 0]
    taken += each
  }
  return segments
}

/** Like `countSegments`, for a text of any length; undefined when it takes more than `MAX_SEGMENTS`. */
export function segmentsWithin(text: string): number | undefined {
  // Counting the segments of a long text takes tenths of a second.
  const segments = text.length > MAX_CHARS ? Number.POSITIVE_INFINITY : countSegments(text)
  return segments > MAX_SEGMENTS ? undefined : segments
}
