// Certificates and keys from PEM files that settings name.
import { readFileSync, statSync } from 'node:fs'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { errorCode } from './error-code.ts'
import { SettingsError } from './setting-kinds.ts'

const largestFile = 1024 * 1024
const certificateForm = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g

/** The certificates of a file, each as PEM. Throws a SettingsError. */
export function readCertificates(path: string): readonly string[] {
  const found = readPem(path).match(certificateForm) ?? []
  if (found.length === 0)
    throw new SettingsError(`"${path}" has no certificate: it needs a block that begins with -----BEGIN CERTIFICATE-----`)
  for (const [index, each] of found.entries())
    if (!isCertificate(each)) throw new SettingsError(`certificate ${index + 1} of "${path}" is damaged`)
  return found
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0
  } catch {
    return false
  }
}

/** The private key of a file, as PEM. Other users of the machine must not be able to read it. Throws a SettingsError. */
export function readPrivateKey(path: string): string {
  const text = readPem(path)
  try {
    createPrivateKey(text)
  } catch {
    // The cause may quote the file.
    throw new SettingsError(`"${path}" has no private key that can be used: it needs PEM without a password`)
  }
  const problem = findModeProblem(path)
  if (problem !== null) throw new SettingsError(problem)
  return text
}

/** For files with secrets: the problem of a file that every user can read or change, or null. */
export function findModeProblem(path: string): string | null {
  const mode = statSync(path).mode & 0o777
  return (mode & 0o006) === 0
    ? null
    : `every user of this machine can read or change "${path}" (mode ${mode.toString(8)}): run chmod 600 on it`
}

/** The check of a setting that names a file: the problem, or null. An empty path is none. */
export const checkFile =
  (read: (path: string) => unknown) =>
  (path: string): string | null => {
    if (path === '') return null
    try {
      read(path)
      return null
    } catch (error) {
      if (error instanceof SettingsError) return error.message
      throw error
    }
  }

function readPem(path: string): string {
  try {
    const text = readFileSync(path, 'utf8')
    if (text.length > largestFile) throw new SettingsError(`"${path}" is larger than ${largestFile} bytes`)
    return text
  } catch (error) {
    if (error instanceof SettingsError) throw error
    throw new SettingsError(`cannot read "${path}" (${String(errorCode(error) ?? 'unknown error')})`, { cause: error })
  }
}
