energies = job.energies()
print(energies.columns.tolist())
print(round(float(energies["temperature (K)"].tail(50).mean()), 1))
energies.loc["production"].plot(x="time (ps)", y="density (g/mL)")
