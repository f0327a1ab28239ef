/** How many timers are running that keep the process up. */
export function activeTimers(): number {
  return process.getActiveResourcesInfo().filter(name => name === 'Timeout').length
}
