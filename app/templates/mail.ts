import type { Template } from './template.js'

export const mailTemplates = {
  welcome: { subject: 'Welcome, {name}', text: 'Hello {name},\n\nyour account is ready.\n' },
  'order-shipped': {
    subject: 'Your order {order} is on its way',
    text: 'Hello,\n\nyour order {order} has left our house.\n'
  },
  'password-changed': {
    subject: 'Your password was changed',
    text: 'Hello,\n\nyour password was changed. If that was not you, contact us.\n'
  }
} satisfies Record<string, Template>
