// Runs examples one after the other and prints, as a JSON list, what each has printed.
// Time stands still in them, so that their waiting times can be written on a page.
import { format } from 'node:util'

const monotonic = performance.now()
const wall = Date.UTC(2026, 2, 2, 12)
performance.now = () => monotonic
Date.now = () => wall

const printed = []
for (const { file, env } of JSON.parse(process.argv[2])) {
  let text = ''
  console.log = (...values) => {
    text += `${format(...values)}\n`
  }
  Object.assign(process.env, env)
  try {
    await import(file)
  } catch (error) {
    text += error.stack
  }
  printed.push(text)
}
process.stdout.write(JSON.stringify(printed), () => process.exit())
