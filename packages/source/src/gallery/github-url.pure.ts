/** The address of `github:owner/repo/path[@ref]`, by default of the branch main; null for another text. */
export function rawGithubUrl(text: string): URL | null {
  const github = /^github:([\w.-]+)\/([\w.-]+)\/([\w./-]+?)(?:@([\w./-]+))?$/.exec(text)
  if (github === null) return null
  const [, owner = '', repository = '', path = '', ref = 'main'] = github
  return new URL(`https://raw.githubusercontent.com/${owner}/${repository}/${ref}/${path}`)
}
