/** What is asked of a test by who has something to end with it. */
export interface Teardown {
  teardown(fn: () => unknown): unknown
}
