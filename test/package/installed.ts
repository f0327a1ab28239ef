import { mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { folderOf } from '../helper/folder.js'
import type { Teardown } from '../helper/teardown.js'
import { clone, link } from './clone.js'
import { must } from './run.js'

/** What a consumer has besides the package and its dependencies. */
const own = ['@types/node', 'undici-types', '@fastify/redis']

interface Installed {
  tarball: string
  /** A project with the package in its node_modules. */
  project: string
  /** The folder of the package there. */
  folder: string
}

/**
 * Packs the working tree as it is and unpacks it into a project, beside nothing but the dependencies that its
 * package.json names. No registry is asked.
 */
export async function install(t: Teardown): Promise<Installed> {
  const source = await clone(t)
  await must(source, 'npm', ['pack'])
  const [file] = readdirSync(source).filter(name => name.endsWith('.tgz'))
  if (file === undefined) throw new Error('npm pack left no tarball')
  const tarball = join(source, file)
  const project = folderOf(t)
  const modules = join(project, 'node_modules')
  mkdirSync(modules)
  await must(modules, 'tar', ['-xzf', tarball])
  const folder = join(modules, 'fastify-send-limit')
  renameSync(join(modules, 'package'), folder)
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  link(project, [...Object.keys(dependencies), 'fastify', ...own])
  return { tarball, project, folder }
}
