import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startApp } from '../app/helper.js'
import { folderOf } from '../helper/folder.js'
import { without } from '../helper/without.js'
import { blocksOf, read } from './blocks.js'

const [rules] = blocksOf('docs/operation.md').filter(({ use }) => use === 'alerts')
const text = rules?.text ?? ''
const skip = without('promtool')

/** Series in steps of a minute for nine hours, and the alerts that they raise at the end. */
const cases: Record<string, { series: Record<string, string>; alerts: string[] }> = {
  'a quiet day': {
    series: {
      'http_request_duration_seconds_count{route="POST /v1/captcha",status="202"}': '0+96x540',
      'http_request_duration_seconds_count{route="POST /v1/captcha",status="503"}': '0+4x540',
      'http_request_duration_seconds_count{route="GET /readyz",status="503"}': '0+9x540',
      'limit_decisions_total{store="redis"}': '0+9x540',
      'limit_refusals_total{rule="recipient"}': '0+90x540',
      'sends_total{channel="sms",outcome="sent"}': '0+9x540',
      'sends_total{channel="sms",outcome="failed"}': '0+1x540',
      'codes_sent_total{country="CN"}': '0+9x540',
      'verifications_total{country="CN",outcome="verified"}': '0+4x540',
      'verifications_total{country="CN",outcome="wrong"}': '0+1x540',
      'quota_used_messages{rule="account",account="shop",per="day"}': '79x540',
      'quota_max_messages{rule="account",account="shop",per="day"}': '100x540'
    },
    alerts: []
  },
  'Redis is lost': {
    series: { 'limit_decisions_total{store="memory"}': '0+1x540' },
    alerts: ['LimitsWithoutRedis{}']
  },
  'requests fail': {
    series: {
      'http_request_duration_seconds_count{route="GET /healthz",status="200"}': '0+9x540',
      'http_request_duration_seconds_count{route="POST /v1/captcha",status="202"}': '0+90x540',
      'http_request_duration_seconds_count{route="POST /v1/captcha/verify",status="503"}': '0+6x540'
    },
    alerts: ['RequestsFail{}']
  },
  'a provider is down': {
    series: {
      'sends_total{channel="sms",sender="a",outcome="failed"}': '0+1x540',
      'sends_total{channel="sms",sender="a",outcome="skipped"}': '0+1x540',
      'sends_total{channel="sms",sender="b",outcome="sent"}': '0+7x540',
      'sends_total{channel="mail",sender="c",outcome="sent"}': '0+1x540'
    },
    alerts: ['MessagesNotSent{channel="sms"}']
  },
  'codes of two countries are not verified, of one of them none, and of a third there are few': {
    series: {
      'codes_sent_total{country="AZ",purpose="login"}': '0+1x540',
      'codes_sent_total{country="CN",purpose="login"}': '0+9x540',
      'codes_sent_total{country="DE",purpose="login"}': '0+9x540',
      'codes_sent_total{country="FR",purpose="login"}': '0x479 0+1x60',
      'verifications_total{country="CN",outcome="verified"}': '0+1x540',
      'verifications_total{country="DE",outcome="verified"}': '0+4x540'
    },
    alerts: ['CodesNotVerified{country="AZ"}', 'CodesNotVerified{country="CN"}']
  },
  'a provider of challenges does not answer': {
    series: {
      'challenges_total{outcome="missing"}': '0+99x540',
      'challenges_total{outcome="solved"}': '0+7x540',
      'challenges_total{outcome="unknown"}': '0+2x540'
    },
    alerts: ['ChallengesUnknown{}']
  },
  'challenges that are not solved, and a few that cannot be checked': {
    series: {
      'challenges_total{outcome="failed"}': '0+9x540',
      'challenges_total{outcome="unknown"}': '0+1x540'
    },
    alerts: []
  },
  'a flood': {
    series: { 'limit_refusals_total{rule="ip",route="a"}': '0+101x540' },
    alerts: ['ManyRefused{rule="ip"}']
  },
  'a quota, which two instances have found': {
    series: {
      'quota_used_messages{rule="service",per="day",instance="a"}': '10x540',
      'quota_used_messages{rule="service",per="day",instance="b"}': '80x540',
      'quota_max_messages{rule="service",per="day",instance="a"}': '100x540',
      'quota_max_messages{rule="service",per="day",instance="b"}': '100x540'
    },
    alerts: ['QuotaNearlyUsed{rule="service",per="day"}']
  },
  'the quota of one of two countries': {
    series: {
      'quota_used_messages{rule="country",country="DE",per="day"}': '79x540',
      'quota_used_messages{rule="country",country="GB",per="day"}': '80x540',
      'quota_max_messages{rule="country",country="DE",per="day"}': '100x540',
      'quota_max_messages{rule="country",country="GB",per="day"}': '100x540'
    },
    alerts: ['QuotaNearlyUsed{rule="country",country="GB",per="day"}']
  },
  'a budget, which two instances have found': {
    series: {
      'budget_used{rule="budget",currency="EUR",per="day",instance="a"}': '0.1x540',
      'budget_used{rule="budget",currency="EUR",per="day",instance="b"}': '0.8x540',
      'budget_max{rule="budget",currency="EUR",per="day",instance="a"}': '1x540',
      'budget_max{rule="budget",currency="EUR",per="day",instance="b"}': '1x540'
    },
    alerts: ['BudgetNearlyUsed{rule="budget",currency="EUR",per="day"}']
  }
}

const names = [...text.matchAll(/alert: (\w+)/g)].map(([, name]) => name as string)

t.test('the alerts are raised by what they tell of, and by nothing else', { skip }, async t => {
  const folder = folderOf(t)
  writeFileSync(join(folder, 'alerts.yml'), text)
  const tests = Object.values(cases).map(({ series, alerts }) => ({
    interval: '1m',
    input_series: Object.entries(series).map(([series, values]) => ({ series, values })),
    // Of the name alone, not of its annotations.
    promql_expr_test: names.map(name => ({
      expr: `count by (alertname, channel, country, currency, rule, account, per) (ALERTS{alertname="${name}",alertstate="firing"})`,
      eval_time: '9h',
      exp_samples: alerts
        .filter(alert => alert.startsWith(`${name}{`))
        .map(alert => ({
          labels: alert.replace(`${name}{`, `{alertname="${name}",`).replace(',}', '}'),
          value: 1
        }))
    }))
  }))
  // JSON is YAML.
  writeFileSync(join(folder, 'test.yml'), JSON.stringify({ rule_files: ['alerts.yml'], tests }))
  const { stdout, stderr, status } = spawnSync('promtool', ['test', 'rules', 'test.yml'], {
    cwd: folder,
    encoding: 'utf8'
  })
  t.equal(status, 0, stdout + stderr)
})

t.test('each metric and label that they name is one of the API', async t => {
  const app = await startApp(t, {}, {})
  const { body } = await app.inject({ url: '/metrics' })
  const metrics = new Set([...body.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name))
  // A histogram has a series for its count.
  const told = text.replaceAll('_seconds_count', '_seconds')
  const named = [...told.matchAll(/\b[a-z]+(?:_[a-z]+)+\b/g)].map(([name]) => name)
  t.ok(named.length > 8)
  for (const name of named) t.ok(metrics.has(name), name)
  const rows = read('docs/operation.md')
    .split('\n')
    .filter(line => /^\| `\w+` \| `\w+`/.test(line))
  const labelsOf = (metric: string) => rows.find(row => row.startsWith(`| \`${metric}\` |`)) ?? ''
  for (const [, metric = '', labels = ''] of told.matchAll(/(\w+)\{([^}]+)\}/g))
    for (const [, label] of labels.matchAll(/(\w+)=/g))
      if (metrics.has(metric)) t.match(labelsOf(metric), `\`${label}\``, `${metric} ${label}`)
})
