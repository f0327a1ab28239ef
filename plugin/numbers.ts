/** Gives each name a number, from 0 up, and the same name the same number again. */
export class Numbers {
  private readonly known = new Map<string, number>()

  of(name: string): number {
    const number = this.known.get(name) ?? this.known.size
    this.known.set(name, number)
    return number
  }
}
