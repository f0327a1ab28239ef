/**
 * What a process of a test needs on its command line to run TypeScript: what `npm test` has compiled, or tsx where a
 * file is run by itself.
 */
export const typescript: string[] = ['--import', process.env.TYPESCRIPT_LOADER ?? 'tsx']
