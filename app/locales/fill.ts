/** Replaces each `{name}` by the member of that name; a name without a member stays as it is. */
export function fill(text: string, members: object, comma = ', '): string {
  return text.replace(/\{([\w-]+)\}/g, (placeholder, name: string) => {
    if (!Object.hasOwn(members, name)) return placeholder
    const value = (members as Record<string, unknown>)[name]
    return Array.isArray(value) ? value.join(comma) : String(value)
  })
}
