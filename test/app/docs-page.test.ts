import { existsSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { chromium, type Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { startApp } from './helper.js'

// Where Debian installs it.
const BROWSER = '/usr/bin/chromium-headless-shell'
const skip = !existsSync(BROWSER) && 'there is no chromium-headless-shell'
// A name that the browser does not take for a loopback address, as of a host inside a network.
const INSIDE = 'api.internal'

/** The page with the documentation, and what the browser complains of. */
async function open(t: Test, host: string): Promise<{ page: Page; complaints: string[] }> {
  const app = await startApp(t, { LOG_LEVEL: 'silent' }, {})
  await app.listen({ port: 0, host: '127.0.0.1' })
  const browser = await chromium.launch({
    executablePath: BROWSER,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-dev-shm-usage',
      '--disable-background-networking',
      `--host-resolver-rules=MAP ${INSIDE} 127.0.0.1`
    ]
  })
  t.teardown(() => browser.close())
  const page = await browser.newPage()
  // Long, so that a busy machine does not look like a broken page.
  page.setDefaultTimeout(60_000)
  const complaints: string[] = []
  page.on('console', message => complaints.push(message.text()))
  page.on('pageerror', error => complaints.push(error.message))
  page.on('requestfailed', request => complaints.push(`${request.url()}: ${request.failure()?.errorText}`))
  await page.goto(`http://${host}:${(app.server.address() as AddressInfo).port}/docs`)
  await page.locator('.opblock').first().waitFor()
  return { page, complaints }
}

t.test('the page at /docs shows all operations over plain HTTP, too', { skip }, async t => {
  const { page } = await open(t, INSIDE)
  t.equal(await page.locator('.opblock').count(), 12)
})

t.test('the browser complains of nothing on /docs, and examples can be tried', { skip }, async t => {
  const { page, complaints } = await open(t, '127.0.0.1')
  t.same(complaints, [])
  for (const [operation, status, body] of [
    ['sendCaptcha', 202, { channel: 'sms' }],
    ['verifyCaptcha', 422, { code: 'CODE_WRONG' }]
  ] as const) {
    const block = page.locator(`[id$="-${operation}"]`)
    await block.locator('.opblock-summary-control').click()
    await block.locator('.try-out__btn').click()
    const answered = page.waitForResponse(response => response.request().method() === 'POST')
    await block.locator('.execute').click()
    const answer = await answered
    t.match({ status: answer.status(), body: await answer.json() }, { status, body }, operation)
  }
})
