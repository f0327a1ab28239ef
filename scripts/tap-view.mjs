/**
 * Makes tap's stream short: of a file that passed its closing line, of a file that failed everything but the
 * assertions that passed. Keeps tap's closing counts (`# { total: 9, pass: 8, fail: 1 }`) and the failed files.
 */
export function tapView(print) {
  const failed = []
  let counts = null
  let held = []
  let blank = false

  function show(line) {
    if (line !== '' || !blank) print(line)
    blank = line === ''
  }

  function line(text) {
    if (text.startsWith(' ') || text.startsWith('# Subtest: ')) {
      held.push(text)
      return
    }
    const closing = /^(not )?ok \d+ - (.*?)( # time=\S+)?$/.exec(text)
    if (closing?.[1]) {
      for (const each of held) if (!/^ +ok \d+(?!.* # )/.test(each)) show(each)
      failed.push(closing[2])
    }
    // Indented lines outside a file's block are the details of the line before.
    if (closing || !held.some(each => each.startsWith('#'))) {
      if (!closing) held.forEach(show)
      held = []
    }
    const total = /^# \{ total: \d+.* \}$/.exec(text)
    if (total) counts = Object.fromEntries([...text.matchAll(/(\w+): (\d+)/g)].map(([, k, n]) => [k, Number(n)]))
    if (held.length > 0) held.push(text)
    else show(text)
  }

  return {
    line,
    end() {
      held.forEach(show)
      return { counts, failed }
    }
  }
}
