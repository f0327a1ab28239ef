export interface Message {
  channel: 'sms' | 'mail'
  /** Phone number in E.164, or mail address. */
  to: string
  /** Mail alone has one. */
  subject?: string
  text: string
}

/** Hands messages to a provider. */
export interface Sender {
  /** As in logs and metrics. */
  readonly name: string
  /**
   * Done when the provider has the message.
   * @param signal aborts when nobody waits any longer
   * @throws UnclearError when the provider may have it; any other error says that it surely has not
   */
  send(message: Message, signal: AbortSignal): Promise<void>
  close?(): void
}

/** One sender for each channel. */
export type Senders = Record<Message['channel'], Sender>

/** The provider may or may not have the message. */
export class UnclearError extends Error {
  override name = 'UnclearError'
}
