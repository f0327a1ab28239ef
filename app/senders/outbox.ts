import type { Clock } from '../clock.js'
import type { Channel, Message, Receipt, Sender } from './sender.js'

export interface Entry {
  /** When, in ISO 8601. */
  at: string
  channel: Channel
  to: string
  subject?: string
  text: string
  html?: string
}

/** For development: keeps the last messages instead of sending them, and shows each as a line. */
export class Outbox implements Sender {
  readonly name = 'outbox'
  private readonly entries: Entry[] = []

  constructor(
    private readonly clock: Clock,
    private readonly print: (line: string) => void,
    private readonly max = 100
  ) {}

  /** Newest first. */
  get messages(): readonly Entry[] {
    return this.entries
  }

  async send({ channel, to, subject, text, html }: Message): Promise<Receipt> {
    const entry: Entry = { at: new Date(this.clock.wall()).toISOString(), channel, to, text }
    if (subject !== undefined) entry.subject = subject
    if (html !== undefined) entry.html = html
    this.entries.unshift(entry)
    this.entries.length = Math.min(this.entries.length, this.max)
    this.print(`${channel} to ${to}: ${text}`)
    return { sender: this.name }
  }
}
