interface Provider {
  /** The first domain stands for all. */
  domains: readonly [string, ...string[]]
  /** Makes all local parts of one mailbox the same. */
  fold?: (local: string) => string
}

/** Large providers that deliver mail to several addresses into one mailbox, without its owner having asked for it. */
const PROVIDERS: readonly Provider[] = [
  { domains: ['gmail.com', 'googlemail.com'], fold: local => local.replaceAll('.', '') },
  { domains: ['icloud.com', 'me.com', 'mac.com'] },
  {
    domains: ['proton.me', 'protonmail.com', 'protonmail.ch', 'pm.me'],
    fold: local => local.replace(/[._-]/g, '')
  },
  {
    domains: ['yandex.ru', 'yandex.com', 'yandex.by', 'yandex.kz', 'yandex.ua', 'ya.ru'],
    fold: local => local.replaceAll('.', '-')
  }
]

const mains = new Map(PROVIDERS.flatMap(({ domains }) => domains.map(domain => [domain, domains[0]])))
const folds = new Map(PROVIDERS.map(({ domains, fold }) => [domains[0], fold]))

/** The domain that stands for all domains of the same provider; any other domain as it is. */
export function mainDomain(domain: string): string {
  return mains.get(domain) ?? domain
}

/**
 * The function that makes all local parts of one mailbox the same, if the domain's provider is known to deliver so.
 * @param domain as `mainDomain` gives it
 */
export function foldAt(domain: string): Provider['fold'] {
  return folds.get(domain)
}
