import { Type } from 'typebox'

/** Refuses members that are not named. */
export const strict = { additionalProperties: false }

/** Names of purposes. */
export const PURPOSE_PATTERN = '^[a-z][a-z0-9-]{0,31}$'
/** Names of parameters. */
export const PARAM_PATTERN = '^[a-z]\\w{0,31}$'
/** Names of templates. */
export const TEMPLATE_PATTERN = '^[a-z][a-z0-9-]{0,63}$'
/** A line of text, without control characters. */
export const LINE = '[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*'

export const Time = (description: string) => Type.String({ format: 'date-time', description })

/**
 * One of these texts, with `type`, which client generators want. Not for files: the check of a file would report the
 * type in place of the texts.
 */
export const OneOf = <const Texts extends string[]>(texts: readonly [...Texts], description: string) =>
  Type.Enum(texts, { type: 'string', description })
