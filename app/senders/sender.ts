/** By which messages go. */
export const CHANNELS = ['sms', 'mail'] as const
export type Channel = (typeof CHANNELS)[number]

export interface Message {
  channel: Channel
  /** Phone number in E.164, or mail address. */
  to: string
  /** Mail alone has one. */
  subject?: string
  text: string
  /** Mail alone has one. */
  html?: string
  /** What providers that keep the texts themselves are told in place of the text. */
  template: string
  /** As in `en`. */
  locale: string
  params: Readonly<Record<string, string>>
  /** How many SMS it takes; SMS alone. */
  segments?: number
}

/** Where a message was handed over, and the provider's name for it. */
export interface Receipt {
  sender: string
  reference?: string
}

/**
 * Why a message did not go out. limited: the provider's own limit; refused: for good, as an invalid number; failed:
 * surely not sent; unknown: may have been sent.
 */
export type Failing = 'limited' | 'refused' | 'failed' | 'unknown'

interface Details {
  sender?: string
  /** The provider's code, or one of ours. */
  code?: string
  /** When the provider would take the message, in milliseconds from now. */
  retryAfterMs?: number
  /** Whether it is for this message's sake, as for its recipient, channel or language: of the provider it tells nothing. */
  ofMessage?: boolean
}

/** Says what became of a message, and nothing about whom it was for: a provider's own words may name the recipient. */
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

/** A code as providers have them; anything else could be somebody's number or address. */
const readable = (code: string) => (/^(?!.*\d{7})[\w.:-]{1,64}$/.test(code) ? code : 'UNREADABLE')

/** Hands messages to a provider. */
export interface Sender {
  /** As in logs and metrics. */
  readonly name: string
  /**
   * Whether it can be asked for this message at all: what fails here tells nothing of the provider.
   * @throws SendError, mostly for the message's sake
   */
  check?(message: Message): void
  /**
   * Done when the provider has the message.
   * @param signal aborts when nobody waits any longer
   * @throws SendError; any other error says that the message surely was not sent
   */
  send(message: Message, signal: AbortSignal): Promise<Receipt>
  close?(): void | Promise<void>
}

/** One sender for each channel. */
export type Senders = Record<Channel, Sender>

/** What an answer means that tells no more than its status: it may be that of a proxy. */
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
