/**
 * What Redis answers, waited for `ms` milliseconds at most. What came while this process was busy is read first.
 * @param unavailable makes the problem that is thrown, with its cause
 */
export async function answered<T>(command: Promise<T>, ms: number, unavailable: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const end = () => reject(new Error(`Redis did not answer within ${ms} ms`))
    timer = setTimeout(() => setImmediate(end), ms)
  })
  try {
    return await Promise.race([command, late])
  } catch (cause) {
    throw Object.assign(unavailable(), { cause })
  } finally {
    clearTimeout(timer)
  }
}
