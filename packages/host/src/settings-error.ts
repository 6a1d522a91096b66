/** A setting that can't be used. The message names the flag, where the value came from, and what is accepted. */
export class SettingsError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'SettingsError'
  }
}
