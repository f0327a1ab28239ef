import type { Redis } from 'ioredis'
import { RedisRecords } from '../../app/captcha/redis-records.js'
import { RedisAnswers } from '../../app/idempotency/redis-answers.js'
import { until } from '../helper/until.js'

/** All that the API takes back when Redis has carried it out and nobody has heard the answer. */
export async function unanswered(client: Redis, timeoutMs: number) {
  const records = new RedisRecords(client, timeoutMs)
  const answers = new RedisAnswers(client, { keepMs: 1, perScope: 1 }, timeoutMs)
  const terms = { lifeMs: 300_000, tries: 3 }
  const begin = (token: string) =>
    answers.begin({ scope: 'scope', key: 'key' }, 'b'.repeat(22), token, 60_000)
  for (const key of ['tried', 'sent again']) await records.put(key, 'sealed', terms)
  const calls: [call: () => Promise<unknown>, code: string][] = [
    [() => records.check('tried', 1), 'CODES_UNAVAILABLE'],
    [() => records.rotate('sent again', terms, 'resend'), 'CODES_UNAVAILABLE'],
    [() => begin('lost'), 'IDEMPOTENCY_UNAVAILABLE']
  ]
  return {
    records,
    /** With the code of the problem that each ends in. */
    calls,
    async takenBack() {
      await until(async () => (await records.get('tried'))?.ended === '', 'the code to be used')
      await until(async () => (await records.get('sent again'))?.generation === 1, 'the code before')
      await until(async () => (await begin('next')).is === 'begun', 'the key that is free')
    }
  }
}
