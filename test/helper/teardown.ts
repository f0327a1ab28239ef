/** The part of a test that helpers need to clean up at its end. */
export interface Teardown {
  teardown(fn: () => unknown): unknown
}
