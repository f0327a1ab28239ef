/** What a socket has for this (`stream.Writable`). */
export interface Corkable {
  cork(): void
  uncork(): void
}

/**
 * Lets commands of one turn of the event loop leave together: a write of its own costs a command as much again. A command
 * waits for others until they are half of all that have no answer yet, so that Redis decides on one half while this
 * process is at the other; no longer than until each socket was read that had something; and not at all when it is alone.
 */
export class Batch {
  private stream: Corkable | undefined
  private gathered = 0
  private unanswered = 0

  /** Sends by a call that writes one command to `stream`, where there is a connection. @returns what the call returns */
  send<T>(stream: Corkable | undefined, command: () => T): T {
    const together = stream !== undefined && this.unanswered > 0
    if (together && this.stream !== stream) this.open(stream)
    const sent = command()
    this.unanswered++
    if (together) this.gathered++
    if (this.gathered * 2 >= this.unanswered) this.flush()
    return sent
  }

  /** Hears of each command's answer. */
  answered(): void {
    this.unanswered--
  }

  private open(stream: Corkable): void {
    this.flush()
    setImmediate(() => this.flush())
    this.stream = stream
    stream.cork()
  }

  private flush(): void {
    this.stream?.uncork()
    this.stream = undefined
    this.gathered = 0
  }
}
