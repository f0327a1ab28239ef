import { getCountries, getCountryCallingCode, parsePhoneNumberFromString } from 'libphonenumber-js/max'
import t from 'tap'
import { takesSms } from '../../app/sms-numbers.js'
import { canonicalPhone } from '../../plugin/index.js'

const MOBILE = ['MOBILE', 'FIXED_LINE_OR_MOBILE']

t.test('takesSms agrees with the library on the numbers of each country and of none', async t => {
  const codes = new Set<string>([
    ...getCountries().map(country => getCountryCallingCode(country)),
    '800',
    '870',
    '881',
    '882'
  ])
  const kinds = new Set<string>()
  for (const code of codes) {
    for (let i = 0; i < 150; i++) {
      // Of five to twelve digits, spread over all that there are.
      const digits = String((i * 0.618_033_988_75) % 1).slice(2, 7 + (i % 8))
      const number = canonicalPhone(`+${code}${digits}`)
      if (number === undefined) continue
      const kind = parsePhoneNumberFromString(number)?.getType() ?? 'none'
      if (takesSms(number) !== MOBILE.includes(kind)) t.fail(`${number} is ${kind}`)
      kinds.add(kind)
    }
  }
  for (const kind of [...MOBILE, 'FIXED_LINE', 'PERSONAL_NUMBER', 'VOIP']) t.ok(kinds.has(kind), kind)
})
