// A process that is given this by --import runs the TypeScript of the repository as `npm test` has transpiled it to
// dist-test/: it loads no compiler, which takes longer than most tests.
import { register } from 'node:module'

register('./compiled-hooks.mjs', import.meta.url)
// For the processes that a test starts: test/helper/typescript.ts.
process.env.TYPESCRIPT_LOADER = import.meta.url
