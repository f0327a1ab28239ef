import type { Clock } from '../clock.js'
import type { Message, Sender } from './sender.js'

export interface Entry extends Message {
  /** When, in ISO 8601. */
  at: string
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

  async send(message: Message): Promise<void> {
    this.entries.unshift({ at: new Date(this.clock.wall()).toISOString(), ...message })
    this.entries.length = Math.min(this.entries.length, this.max)
    this.print(`${message.channel} to ${message.to}: ${message.text}`)
  }
}
