interface Alternatives {
  anyOf?: { type?: string }[]
}

/** Whether a body may be left out: its schema accepts null, or there is no schema. */
export function mayBeLeftOut(schema: unknown): boolean {
  if (schema === undefined) return true
  const { anyOf = [] } = schema as Alternatives
  return anyOf.some(({ type }) => type === 'null')
}
