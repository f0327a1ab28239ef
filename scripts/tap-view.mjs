const LEFT_OUT = /^ +ok \d+.* # (SKIP|TODO)/
const PASSED = /^( +)ok \d+(?: - (.*?))?(?: # time=\S+)?$/
const CLOSING = /^(not )?ok \d+ - (.*?)(?: # time=\S+)?$/
const COUNTS = /^# \{ (total: \d+.*) \}$/

// An assertion that passed says nothing; a subtest that passed only what it left out.
function hold(block, text) {
  const [, indent, name] = PASSED.exec(text) ?? []
  if (indent === undefined || LEFT_OUT.test(text)) {
    block.push(text)
    return
  }
  const start = block.lastIndexOf(`${indent}# Subtest: ${name}`)
  if (start === -1) return
  const inner = block.slice(start + 1)
  if (!inner.every(line => line.trim() === '' || line.startsWith(`${indent}    `))) return
  block.splice(start, block.length, ...inner.filter(line => LEFT_OUT.test(line)))
}

/**
 * Shortens tap's stream for reading: a file that passed to its closing line and what it left out, a file that
 * failed to what did not pass. Takes tap's own closing counts, `# { total: 9, pass: 8, fail: 1 }`.
 */
export function tapView(print) {
  const failed = []
  let counts = null
  let block = null
  let blank = true

  function show(text) {
    const empty = text.trim() === ''
    if (!empty || !blank) print(text)
    blank = empty
  }

  function line(text) {
    const closing = CLOSING.exec(text)
    if (block === null && text.startsWith('# Subtest: ')) {
      block = [text]
    } else if (block !== null && !closing) {
      hold(block, text)
    } else {
      // A file that ran out of time is closed as "timeout!".
      if (closing?.[1]) failed.push(block?.[0].slice('# Subtest: '.length) ?? closing[2])
      const held = block ?? []
      block = null
      for (const each of held) if (closing[1] || LEFT_OUT.test(each)) show(each)
      const found = COUNTS.exec(text)
      if (found) counts = Object.fromEntries(found[1].split(', ').map(pair => pair.split(': ')))
      show(text)
    }
  }

  /** Call when the stream has ended; `counts` is null when it broke off. */
  function end() {
    block?.forEach(show)
    return { counts, failed }
  }

  return { line, end }
}
