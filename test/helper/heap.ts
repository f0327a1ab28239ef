import { getHeapSnapshot } from 'node:v8'

/** Whether a text is anywhere in the heap. It is given backwards, so that the question itself is not found. */
export async function isKept(backwards: string): Promise<boolean> {
  let heap = ''
  for await (const chunk of getHeapSnapshot()) heap += chunk
  return heap.includes([...backwards].reverse().join(''))
}
