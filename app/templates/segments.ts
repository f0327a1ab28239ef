import { SegmentedMessage } from 'sms-segments-calculator'

/** A longer SMS is a mistake more often than it is meant. */
export const MAX_SEGMENTS = 3
/** What these hold at most: 153 characters each, where all are of GSM 7-bit (3GPP TS 23.038). */
const MAX_CHARS = 153 * MAX_SEGMENTS
/** All characters of GSM 7-bit that take one place each, but CR: with LF the library takes it for one of UCS-2. */
const PLAIN = /^[\n -Z_a-z¡£¤¥§¿ÄÅÆÇÉÑÖØÜßàäåæèéìñòöøùüΓΔΘΛΞΠΣΦΨΩ]*$/

/** How many SMS a text takes (GSM 03.38 or UCS-2, 3GPP TS 23.040). */
export function countSegments(text: string): number {
  // So many fit whatever they are; and to ask the library, 4 µs a character, would take as long as all the rest of a send.
  if (text.length <= 70) return 1
  if (PLAIN.test(text)) return text.length <= 160 ? 1 : Math.ceil(text.length / 153)
  const { segmentsCount, encodingName } = new SegmentedMessage(text)
  // A letter with all its accents it takes for one, and puts into one segment however many they are.
  const least = encodingName === 'UCS-2' ? Math.ceil(text.length / 67) : 1
  return Math.max(segmentsCount, least)
}

/** The same for a text that may be of any length; undefined when it takes more than `MAX_SEGMENTS`. */
export function segmentsWithin(text: string): number | undefined {
  // To count those of a long text takes tenths of a second.
  const segments = text.length > MAX_CHARS ? Number.POSITIVE_INFINITY : countSegments(text)
  return segments > MAX_SEGMENTS ? undefined : segments
}
