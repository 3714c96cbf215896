"""The second engine: stages of a simulation run by GROMACS, from the System that OpenMM would run."""
