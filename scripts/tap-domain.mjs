import t from 'tap'

const live = new Set()

/** The innermost test that runs. */
function running(test) {
  const [inner] = test.activeSubtests
  return inner ? running(inner) : test
}

/** Fails the test that runs, unless a test listens to such errors itself. Rejections come here, too. */
function fail(error, origin) {
  if (process.listenerCount('uncaughtException') === 1) running(t).hookDomain.onerror(error, origin)
}

/**
 * What tap takes from async-hook-domain: a way for an error that nobody has caught to fail the test. That package finds
 * out which test it was by following all promises and handles, which slows the tests down. The tests of a file run one
 * after another, so here it is the one that runs.
 */
export class Domain {
  constructor(onerror) {
    this.onerror = onerror
    if (live.size === 0) process.on('uncaughtException', fail)
    live.add(this)
  }

  /** When the last test has ended, an error ends the process. */
  destroy() {
    if (live.delete(this) && live.size === 0) process.off('uncaughtException', fail)
  }
}
