import type { Static } from 'typebox'
import { type Clock, iso } from '../clock.js'
import type { OutboxAnswer } from '../schemas/outbox.js'
import type { Delivered, Message, Sender } from './sender.js'

type Entry = Static<typeof OutboxAnswer>['messages'][number]

const MAX = 100

/** For development: keeps the last messages instead of sending them, and shows each as a line. */
export class Outbox implements Sender {
  readonly name = 'outbox'
  private readonly entries: Entry[] = []

  constructor(
    private readonly clock: Clock,
    private readonly print: (line: string) => void
  ) {}

  /** Newest first. */
  get messages(): readonly Entry[] {
    return this.entries
  }

  async send({ channel, to, subject, text }: Message): Promise<Delivered> {
    const at = iso(this.clock.wall())
    this.entries.unshift({ at, channel, to, ...(subject !== undefined && { subject }), text })
    this.entries.length = Math.min(this.entries.length, MAX)
    this.print(`${channel} to ${to}: ${text}`)
    return { sender: this.name }
  }
}
