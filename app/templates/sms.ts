import type { Template } from './template.js'

export const smsTemplates = {
  'order-shipped': { text: 'Your order {order} is on its way.' },
  'appointment-reminder': { text: 'Your appointment is on {date} at {time}.' },
  'payment-received': { text: 'We have received your payment of {amount} for order {order}.' },
  'password-changed': { text: 'Your password was changed. If that was not you, contact us.' }
} satisfies Record<string, Template>
