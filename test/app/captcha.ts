import type { InjectOptions } from 'fastify'
import { type Answer, type App, inject, post } from './helper.js'

export const PHONE = '13800138000'
export const E164 = '+8613800138000'

interface Asked {
  phone?: string
  purpose?: string | undefined
  locale?: string
  send?: boolean
  challenge?: string
}

/** Asks for a code by SMS. */
export const ask = (app: App, asked: Asked = {}, options: InjectOptions = {}): Promise<Answer> =>
  post(app, '/v1/captcha', { phone: PHONE, purpose: 'register', ...asked }, options)

/** Asks for a code by mail. */
export const askMail = (app: App, email = 'jane.doe@example.com', purpose = 'register'): Promise<Answer> =>
  post(app, '/v1/captcha', { email, purpose })

export const resend = (app: App, id: string, options: InjectOptions = {}): Promise<Answer> =>
  inject(app, { method: 'POST', url: `/v1/captcha/${id}/resend`, ...options })

export const verify = (app: App, id: string, code: string, more: object = {}, options: InjectOptions = {}) =>
  post(app, '/v1/captcha/verify', { id, code, ...more }, options)

export const status = (app: App, id: string, options: InjectOptions = {}): Promise<Answer> =>
  inject(app, { url: `/v1/captcha/${id}`, ...options })

export const cancel = (app: App, id: string, options: InjectOptions = {}): Promise<Answer> =>
  inject(app, { method: 'DELETE', url: `/v1/captcha/${id}`, ...options })

/** What an answer tells, without the name of its request. */
export const told = ({ body: { instance: _, ...told } }: Answer) => told

/** A code that is not the right one. */
export const wrong = (code: string) => String((Number(code) + 1) % 1_000_000).padStart(6, '0')
