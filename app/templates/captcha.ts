import type { Template } from './template.js'

export const captchaTemplate = {
  text: '{code} is your code to {action}. It is valid for {minutes} minutes. Tell it to nobody.'
} satisfies Template
