import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { stop } from './install.mjs'

/** A quoted value may span several lines. */
const QUOTED_VALUE = /=[ \t]*(["'`])[\s\S]*?\1/g
const LINE = /^[ \t]*((export[ \t]+)?[A-Za-z_]\w*[ \t]*=[^#]*((?<=[ \t=])#.*)?|#.*)?\r?$/

/**
 * Sets the variables of a file that the environment does not set already. The file may be missing; a mistake in it ends
 * the process.
 */
export function readEnvFile(file) {
  let text
  try {
    text = readFileSync(file, 'utf8').replace(/^\uFEFF/, '')
  } catch (error) {
    if (error.code === 'ENOENT') return
    stop(`Not started: ${file} cannot be read: ${error.code}.`)
  }
  const lines = text.replace(QUOTED_VALUE, quoted => `=${quoted.replace(/./g, '')}`).split('\n')
  // Node ignores such a line without a word, and Node 20 the next line as well; of `x#y` it takes `x`.
  const wrong = lines.findIndex(line => !LINE.test(line)) + 1
  const right = 'NAME=value, in quotes if it holds a #, nor a comment (#)'
  if (wrong > 0) stop(`Not started: ${file}, line ${wrong}, is neither ${right}.`)
  for (const [name, value] of Object.entries(parseEnv(text))) process.env[name] ??= value
}
