interface Alternatives {
  anyOf?: { type?: string }[]
}

/** Whether a body may be left out: where the schema takes null for it, or there is none. */
export function mayBeLeftOut(schema: unknown): boolean {
  if (schema === undefined) return true
  const { anyOf = [] } = schema as Alternatives
  return anyOf.some(({ type }) => type === 'null')
}
