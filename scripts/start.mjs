import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { buildIfNeeded } from './build.mjs'
import { readEnvFile } from './env-file.mjs'
import { installDependencies, root, stop } from './install.mjs'

installDependencies()
if (!buildIfNeeded()) stop('The build failed; what the compiler said stands above.')
readEnvFile(join(root, '.env'))

// Runs in this process, so signals reach the server and the exit code is its own.
const server = join(root, 'dist/app/server.js')
process.argv[1] = server
await import(pathToFileURL(server).href)
