/** The ways by which messages go. */
export const CHANNELS = ['sms', 'mail'] as const
export type Channel = (typeof CHANNELS)[number]

export interface Message {
  channel: Channel
  /** Phone number in E.164, or mail address. */
  to: string
  /** Of mail only. */
  subject?: string
  text: string
  /** Of mail only. */
  html?: string
  /** The name of the template. Providers that keep the texts themselves get its code in place of the text. */
  template: string
  /** The language of the text, such as `en`. */
  locale: string
  params: Readonly<Record<string, string>>
  /** How many SMS the text takes; of SMS only. */
  segments?: number
  /** For how many seconds, from now, its code can be verified; of codes only. */
  lifetimeSeconds?: number
  /** The sender that took the message before, or may have; of resends only, if there is one. */
  formerSender?: string
}

/** The sender that took a message, and the provider's name for the message. */
export interface Delivered {
  sender: string
  reference?: string
}

/**
 * Why a message did not go out. limited: by the provider's own limit; refused: for good, such as an invalid number;
 * failed: surely not sent, for another reason; unknown: may have been sent.
 */
export type Failing = 'limited' | 'refused' | 'failed' | 'unknown'

interface Details {
  sender?: string
  /** The provider's code, or one of this app. */
  code?: string
  /** When the provider would take the message, in milliseconds from now. */
  retryAfterMs?: number
  /** Whether the reason is this message, such as its recipient, channel or language, and not the provider. */
  ofMessage?: boolean
}

/** Says what became of a message, but not a provider's own words, which may name the recipient. */
export class SendError extends Error {
  override name = 'SendError'
  sender: string | undefined
  readonly code: string | undefined
  readonly retryAfterMs: number | undefined
  readonly ofMessage: boolean

  constructor(
    readonly outcome: Failing,
    { sender, code, retryAfterMs, ofMessage = false }: Details = {}
  ) {
    const shown = code === undefined ? undefined : readable(code)
    super(`${sender ?? 'sender'}: ${outcome}${shown === undefined ? '' : ` (${shown})`}`)
    this.sender = sender
    this.code = shown
    this.retryAfterMs = retryAfterMs
    this.ofMessage = ofMessage
  }
}

/** A code in the form that providers use. Anything else is hidden, since it could be somebody's number or address. */
const readable = (code: string) => (/^(?!.*\d{7})[\w.:-]{1,64}$/.test(code) ? code : 'UNREADABLE')

/** Hands messages to a provider. */
export interface Sender {
  /** The name in logs and metrics. */
  readonly name: string
  /**
   * Checks whether the provider can be asked for this message at all. A failure here says nothing of the provider.
   * @throws SendError, mostly because of the message
   */
  check?(message: Message): void
  /**
   * Resolves when the provider has the message.
   * @param signal aborts when nobody waits any longer
   * @throws SendError; any other error means that the message surely was not sent
   */
  send(message: Message, signal: AbortSignal): Promise<Delivered>
  close?(): void | Promise<void>
}

/** One sender for each channel. */
export type Senders = Record<Channel, Sender>

/** What an answer means that says no more than its status, and may be from a proxy. */
export function statusError(status: number): SendError {
  const sure = status >= 400 && status < 500
  return new SendError(sure ? 'failed' : 'unknown', { code: `HTTP_${status}` })
}

/** A SendError that names its sender. */
export type Undelivered = SendError & { sender: string }

/** What any error of a sender means. */
export function sendErrorOf(thrown: unknown, sender: string): Undelivered {
  const { code, name } = thrown as { code?: unknown; name?: unknown }
  const error =
    thrown instanceof SendError
      ? thrown
      : new SendError('failed', { sender, code: String(code ?? name ?? 'ERROR') })
  return Object.assign(error, { sender: error.sender ?? sender })
}
