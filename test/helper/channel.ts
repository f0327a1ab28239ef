import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Teardown } from './teardown.js'

/** Collects what is published on a diagnostics channel from now on. */
export function heardOn<T>(t: Teardown, channel: string): T[] {
  const heard: T[] = []
  const hear = (message: unknown) => void heard.push(message as T)
  subscribe(channel, hear)
  t.teardown(() => unsubscribe(channel, hear))
  return heard
}
