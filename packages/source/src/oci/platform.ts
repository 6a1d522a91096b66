// The machine that an image is for, in OCI's words, and which of an index's images it can run.
export type Platform = Readonly<{ os: string; arch: string; variant?: string }>

export type PlatformEntry = Readonly<{ os: string; architecture: string; variant?: string | undefined }>

/** What a machine is taken for when nobody says. */
const usualVariants: Readonly<Record<string, string>> = { amd64: 'v1', arm64: 'v8', arm: 'v7' }

const osNames: Readonly<Record<string, string>> = { win32: 'windows' }
const archNames: Readonly<Record<string, string>> = { x64: 'amd64', ia32: '386' }

/** From Node's words (`process.platform`, `process.arch`). */
export const platformOf = ({ platform, arch }: { platform: string; arch: string }): Platform => ({
  os: osNames[platform] ?? platform,
  arch: archNames[arch] ?? arch,
})

/** Null when it can't run it; otherwise the higher the better. A variant contains all lower ones (v8 runs v7's code, not the other way). */
export function fitness(entry: PlatformEntry, platform: Platform): number | null {
  if (entry.os !== platform.os || entry.architecture !== platform.arch) return null
  const has = levelOf(platform.variant ?? usualVariants[platform.arch])
  const needs = entry.variant === undefined || entry.variant === '' ? 0 : levelOf(entry.variant)
  if (entry.variant !== undefined && entry.variant === platform.variant) return Number.MAX_SAFE_INTEGER
  return needs === null || has === null || needs > has ? (needs === 0 ? 0 : null) : needs
}

export const showPlatform = ({ os, arch, variant }: Platform): string => `${os}/${arch}${variant === undefined ? '' : `/${variant}`}`

const levelOf = (variant: string | undefined): number | null => {
  const [, digits] = /^v(\d{1,2})(?:\.\d{1,2})?$/.exec(variant ?? '') ?? []
  return digits === undefined ? null : Number(digits)
}
