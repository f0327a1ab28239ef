import { getHeapSnapshot } from 'node:v8'

/** Whether a text that ends so stands anywhere in this process; asked backwards, so as not to find the question. */
export async function isKept(backwards: string): Promise<boolean> {
  let heap = ''
  for await (const chunk of getHeapSnapshot()) heap += chunk
  return heap.includes([...backwards].reverse().join(''))
}
