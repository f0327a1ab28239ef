import type { Redis } from 'ioredis'
import { RedisRecords } from '../../app/captcha/redis-records.js'
import { RedisAnswers } from '../../app/idempotency/redis-answers.js'
import { until } from '../helper/until.js'

/** For what is prepared and looked up: on a busy machine that takes its time. */
const PATIENCE_MS = 10_000

/** The commands that the API takes back when Redis has carried them out and the answer was lost. */
export async function unanswered(client: Redis, timeoutMs: number) {
  const hasty = new RedisRecords(client, timeoutMs)
  const records = new RedisRecords(client, PATIENCE_MS)
  const terms = { lifeMs: 300_000, tries: 3 }
  const begin = (token: string, timeoutMs: number) =>
    new RedisAnswers(client, { keepMs: 1, perScope: 1 }, timeoutMs).begin(
      { scope: 'scope', key: 'key' },
      'b'.repeat(22),
      token,
      60_000
    )
  for (const key of ['tried', 'sent again']) await records.put(key, 'sealed', terms)
  const calls: [call: () => Promise<unknown>, code: string][] = [
    [() => hasty.check('tried', 1), 'CODES_UNAVAILABLE'],
    [() => hasty.rotate('sent again', terms, 'resend'), 'CODES_UNAVAILABLE'],
    [() => begin('lost', timeoutMs), 'IDEMPOTENCY_UNAVAILABLE']
  ]
  return {
    records,
    /** Each with the code of the problem in which it ends. */
    calls,
    async takenBack() {
      await until(async () => (await records.get('tried'))?.ended === '', 'the code to be used')
      await until(async () => (await records.get('sent again'))?.generation === 1, 'the code before')
      await until(async () => (await begin('next', PATIENCE_MS)).is === 'begun', 'the key that is free')
    }
  }
}
