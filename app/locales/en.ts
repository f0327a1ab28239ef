/** English. The app's own problems have their words where they are thrown; these are for Fastify's and the plugin's. */
export const en = {
  problems: {
    FST_ERR_BAD_URL: 'The address cannot be read: a % in it is followed by no valid code.',
    FST_ERR_MAX_PARAM_LENGTH: 'A part of the address is too long.',
    FST_ERR_CTP_BODY_TOO_LARGE: 'The body is too large. Send at most 16 KiB.',
    FST_ERR_CTP_INVALID_MEDIA_TYPE: 'Send the body as JSON, with content-type: application/json.',
    FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'The body is not as long as content-length says.',
    FST_ERR_CTP_EMPTY_JSON_BODY: 'The body is empty. Send JSON, or leave out content-type.',
    FST_ERR_CTP_INVALID_JSON_BODY: 'The body is not valid JSON.',
    FST_ERR_HANDLER_TIMEOUT:
      'This took too long and was given up. If a message was to be sent, it may still arrive.',
    FST_SEND_LIMIT_KEY_MISSING: '{key} is missing, or is not a single value.',
    FST_SEND_LIMIT_KEY_INVALID: '{key} is not what the limits need.',
    FST_SEND_LIMIT_STORE_UNAVAILABLE:
      'The limits cannot be checked now, so nothing is sent. Try again later.',
    FST_SEND_LIMIT_STORE_FULL: 'The service is too busy to count one more message. Try again later.',
    FST_SEND_LIMIT_TIMEOUT: 'Checking the limits took too long. Try again later.'
  },
  flaws: {
    REQUIRED: 'is missing',
    UNEXPECTED: 'is not expected here',
    NOT_STRING: 'must be a string',
    NOT_NUMBER: 'must be a number',
    NOT_INTEGER: 'must be a whole number',
    NOT_BOOLEAN: 'must be true or false',
    NOT_OBJECT: 'must be an object',
    NOT_ARRAY: 'must be a list',
    NOT_SCALAR: 'must be a string or a number',
    INEXACT: 'must be sent as a string: a number so large, or with a fraction, may lose digits',
    NOT_ONE_OF: 'must be one of {allowed}',
    EMPTY: 'must not be empty',
    TOO_SHORT: 'must have {limit} characters or more',
    TOO_LONG: 'must have {limit} characters or fewer',
    TOO_SMALL: 'must be {limit} or more',
    TOO_LARGE: 'must be {limit} or less',
    TOO_FEW: 'must have {limit} entries or more',
    TOO_MANY: 'must have {limit} entries or fewer',
    PATTERN: 'must match the pattern {pattern}',
    FORMAT: 'must have the format {format}',
    INVISIBLE: 'must not contain line breaks, control characters or invisible characters',
    LINK: 'must not contain a link, a web address or a mail address',
    NOT_URL: 'must be an https address',
    UNSENDABLE: 'cannot receive messages',
    WRONG: 'is not as documented'
  }
}
