import { fill } from '../locales/fill.js'
import type { Message } from '../senders/sender.js'
import type { Values } from './params.js'
import type { Words } from './schema.js'

type Filled = Pick<Message, 'subject' | 'text' | 'html'>

/** Puts values into the words of a template; in HTML they are text, never markup. */
export function fillWords(words: Words, values: Values, locale: string): Filled {
  const filled: Filled = { text: fill([words.text].flat().join('\n'), values) }
  if (words.subject !== undefined) filled.subject = fill(words.subject, values)
  if (words.html !== undefined) {
    const escaped = Object.fromEntries(
      Object.entries(values).map(([name, value]) => [name, escapeHtml(value)])
    )
    filled.html = page(fill(words.html.join('\n'), escaped), escapeHtml(filled.subject ?? ''), locale)
  }
  return filled
}

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;'
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, character => ENTITIES[character] as string)
}

function page(body: string, title: string, locale: string): string {
  return `<!doctype html>
<html lang="${locale}">
<head><meta charset="utf-8"><title>${title}</title></head>
<body dir="auto" style="font-family:sans-serif;font-size:16px;line-height:1.5">
${body}
</body>
</html>
`
}
