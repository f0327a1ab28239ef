// A process that is given this by --import runs the TypeScript of the repository as `npm test` has transpiled it to
// dist-test/: it loads no compiler, which takes longer than most tests.
import { register } from 'node:module'

register('./compiled-hooks.mjs', import.meta.url)
// tap's own loader, that would transpile, stays out of the way.
process.env.TAP_TYPE_STRIP_ONLY = '1'
// For the processes that a test starts: test/helper/typescript.ts.
process.env.TYPESCRIPT_LOADER = import.meta.url
