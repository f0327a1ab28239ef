/** Numbers for names, from 0 up: one each, and the same one for the same name again. */
export class Numbers {
  private readonly known = new Map<string, number>()

  of(name: string): number {
    const number = this.known.get(name) ?? this.known.size
    this.known.set(name, number)
    return number
  }
}
