/**
 * What Redis answers, waited for `ms` milliseconds at most. What came while this process was busy is read first.
 * @param unavailable makes the problem that is thrown, with its cause
 * @param takeBack undoes what the command did without an answer, and nothing where it did nothing: asked at once, since
 * an answer may never come, and again behind one that comes late, which a cluster may have carried out after that
 */
export async function answered<T>(
  command: Promise<T>,
  ms: number,
  unavailable: () => Error,
  takeBack?: () => Promise<unknown>
): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const end = () => reject(new Error(`Redis did not answer within ${ms} ms`))
    timer = setTimeout(() => setImmediate(end), ms)
  })
  try {
    return await Promise.race([command, late])
  } catch (cause) {
    if (takeBack !== undefined) {
      takeBack().catch(() => {})
      command.then(takeBack).catch(() => {})
    }
    throw Object.assign(unavailable(), { cause })
  } finally {
    clearTimeout(timer)
  }
}
