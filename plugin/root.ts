/** The root instance of the app: each instance of Fastify inherits from the one in which it was registered. */
export function rootOf<Instance extends object>(instance: Instance): Instance {
  const parent = Object.getPrototypeOf(instance)
  return typeof parent?.addHook === 'function' ? rootOf(parent) : instance
}
