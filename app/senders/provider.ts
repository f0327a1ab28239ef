import { ConfigError } from '../check.js'
import type { Clock } from '../clock.js'
import type { Config } from '../config-schema.js'
import type { Channel, Sender } from './sender.js'

type Variable = keyof Config

/** The configuration with some variables surely set. */
type With<V extends Variable> = Config & { [each in V]-?: NonNullable<Config[each]> }

/** A provider that can be configured: an entry of providers.ts. */
export interface Provider {
  channels: readonly Channel[]
  /** The variables that must be set. */
  needs: readonly Variable[]
  /** The packages that must be installed, as `npm install` takes them. */
  packages?: string
  /** The variable that holds the provider's template codes. */
  templates?: Variable
  /** Called when all that `needs` lists is set. @throws an error of `import()` when a package is missing */
  open(config: Config, clock: Clock): Promise<Sender>
}

/** Types a provider so that its `open` sees the variables of `needs` as set. */
export function provider<const V extends Variable>(
  from: Omit<Provider, 'needs' | 'open'> & {
    needs: readonly V[]
    open(config: With<V>, clock: Clock): Promise<Sender>
  }
): Provider {
  return from as unknown as Provider
}

/**
 * Opens a sender.
 * @param by how the provider was chosen, as in "SMS_SENDERS names twilio"
 * @throws ConfigError that names the variable that is missing, or says what to install
 */
export async function openProvider(
  chosen: Provider,
  by: string,
  config: Config,
  clock: Clock
): Promise<Sender> {
  for (const name of chosen.needs) {
    if (config[name] === undefined) throw new ConfigError(`${name} is required: ${by}.`)
  }
  try {
    return await chosen.open(config, clock)
  } catch (error) {
    // Recognized by the message, since loaders that run TypeScript lose the code ERR_MODULE_NOT_FOUND.
    if (!(error as Error).message.startsWith('Cannot find package')) throw error
    throw new ConfigError(`${by}: install it with npm install ${chosen.packages}`, { cause: error })
  }
}
